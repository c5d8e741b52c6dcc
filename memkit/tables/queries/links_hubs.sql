-- Which pages do most other pages link to?
select pages.path, any_value(pages.title order by pages.line_start) as title,
    count(distinct links.from_id) filter (where sources.path <> pages.path) as linked_from
from relations as links
join memories as pages on pages.memory_id = links.to_id
join memories as sources on sources.memory_id = links.from_id
where links.written is not null
group by pages.path
having linked_from > 0
order by linked_from desc, pages.path
