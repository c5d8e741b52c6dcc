-- Which index entries have no text to be found by, and why?
select e.category, e.title, e.file, coalesce(e.status, 'valid') as status, e.memory_id
from entries e join memories m using (memory_id)
where e.status <> 'valid' or trim(regexp_replace(m.text, '^\s*#[^\n]*', '')) = ''
order by status, e.memory_id
