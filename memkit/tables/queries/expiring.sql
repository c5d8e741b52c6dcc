-- What expires within the days after as_of, soonest first?
-- $days = 31
select expires_at::date as expires, user_id, kind, text, memory_id
from memories
where expires_at::date between $as_of::date and $as_of::date + $days::integer
order by expires, memory_id
