-- Which index entries are split into parts, and into how many?
select e.category, e.file, len(e.parts) as parts, length(m.text) as chars, e.memory_id
from entries e join memories m using (memory_id)
where len(e.parts) > 0
order by parts desc, e.memory_id
