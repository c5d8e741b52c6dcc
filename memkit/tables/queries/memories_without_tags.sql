-- Which memories have no tag to be found by, in formats that have tags?
select memory_id, kind, title, path
from memories
where len(tags) = 0 and kind in ('entry', 'note', 'pathway', 'memory_item')
order by memory_id
