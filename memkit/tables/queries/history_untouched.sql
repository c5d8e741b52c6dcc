-- Which memories that live have stood longest without a change?
select valid_from::date as since, at_start as or_longer, memory_id, kind, title, text
from versions
where valid_to is null and change <> 'removed'
order by valid_from, memory_id
