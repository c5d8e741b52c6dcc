-- Which memories were rewritten most often?
select memory_id, count(*) filter (where change not in ('added', 'removed')) as changes,
    count(*) filter (where change = 'removed') as removals, min(valid_from)::date as first, max(valid_from)::date as last,
    arg_max(title, version) as title
from versions
group by memory_id
having changes > 0
order by changes desc, memory_id
