-- Which titles stand for several memories, letters aside?
-- $least = 2
select lower(trim(title)) as name, count(*) as memories, count(distinct path) as files,
    min(memory_id) as first_id
from memories
where trim(title) <> ''
group by name
having count(*) >= $least::integer
order by memories desc, name
