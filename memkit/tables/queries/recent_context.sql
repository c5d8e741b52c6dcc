-- What do the daily logs of the last days up to as_of say, newest first?
-- $days = 2
select d.date, m.title, m.text, m.memory_id
from memories m join documents d using (memory_id)
where d.kind = 'daily_log' and d.date <= $as_of::date and d.date > $as_of::date - $days::integer
order by d.date desc, m.path, m.line_start, m.memory_id
