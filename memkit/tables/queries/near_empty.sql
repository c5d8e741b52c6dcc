-- Which memories say next to nothing (under 20 characters)?
select memory_id, kind, length(trim(text)) as chars, text
from memories
where length(trim(text)) < 20
order by chars, memory_id
