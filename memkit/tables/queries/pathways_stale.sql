-- Which pathways were not used for so many days?
-- $days = 90.0
select memory_id, id, tier, hits, success_rate, last_used_at,
    {idle_days} as idle_days,
    case when last_used_at is null then 'undated' when last_used_at > $until then 'future' end as note,
    coalesce(idle_days > $days, false) as stale
from pathways
order by idle_days desc nulls last, id, memory_id
