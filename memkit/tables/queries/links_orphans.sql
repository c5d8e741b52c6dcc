-- Which pages does no other page link to?
with pages as (
    select path, min_by(title, line_start) as title from memories where layout is not null
    group by path having bool_and(kind not in ('index', 'log', 'daily_log', 'dream', 'session', 'heartbeat', 'long_term'))
), reached as (
    select targets.path
    from relations as links
    join memories as targets on targets.memory_id = links.to_id
    join memories as sources on sources.memory_id = links.from_id
    where links.written is not null and targets.path <> sources.path
)
select path, title from pages anti join reached using (path) order by path
