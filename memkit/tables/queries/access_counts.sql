-- Which memories are used most?
select memory_id, kind, title, access_count, updated_at
from memories
where access_count is not null
order by access_count desc, memory_id
