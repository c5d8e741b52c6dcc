-- Which facts had expired on the day of as_of, longest ago first?
select memory_id, user_id, kind, expires_at::date as expires, text
from memories
where {expired}
order by expires_at, memory_id
