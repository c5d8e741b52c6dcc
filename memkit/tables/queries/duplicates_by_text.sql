-- Which memories say the same, letter case and blanks aside?
select min(text) as text, count(*) as copies, list(memory_id order by memory_id) as memory_ids
from memories
where trim(text) <> ''
group by lower(regexp_replace(trim(text), '\s+', ' ', 'g'))
having count(*) > 1
order by copies desc, text
