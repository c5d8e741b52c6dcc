-- What expires within the days after as_of, soonest first?
-- $days = 31
select expires_at::date as expires, user_id, kind, text, memory_id
from memories
where expires_at >= $until and expires_at::date <= $as_of::date + $days::integer
order by expires, memory_id
