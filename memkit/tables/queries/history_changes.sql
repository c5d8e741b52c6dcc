-- What changed in the last days up to as_of, newest first?
-- $days = 7
select v.valid_from::date as day, v.change, v.memory_id, v.title, v.lines_added, v.lines_removed, c.author, c.subject,
    v.commit
from versions v join commits c using (commit)
where not v.at_start and v.valid_from <= $as_of and v.valid_from::date > $as_of::date - $days::integer
order by v.valid_from desc, v.memory_id, v.version desc
