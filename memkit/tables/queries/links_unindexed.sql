-- Which pages does the index of their folder leave out?
with files as (
    select distinct path, regexp_replace(path, '/?[^/]*$', '') as folder, kind from memories where layout is not null
), listed as (
    select sources.path as index_path, targets.path
    from relations as links
    join memories as targets on targets.memory_id = links.to_id
    join memories as sources on sources.memory_id = links.from_id
)
select indexes.path as index_path, pages.path
from files as indexes join files as pages using (folder)
where indexes.kind = 'index' and pages.kind not in ('index', 'log', 'daily_log', 'dream', 'session', 'heartbeat', 'long_term') and pages.path <> indexes.path
    and not exists (from listed where listed.index_path = indexes.path and listed.path = pages.path)
group by all
order by all
