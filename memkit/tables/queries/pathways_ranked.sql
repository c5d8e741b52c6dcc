-- Which pathways work, by the lower bound of the interval of their success rate?
-- $z = 1.959964
-- The Wilson score interval (1927) is always within 0..1, and wide where there are few uses; 1.96 is for 95 %.
with used as (
    select *, greatest(coalesce(hits, 0), 0)::double as n,
        case when success_rate between 0 and 1 then success_rate end as p, $z * $z as zz
    from pathways
),
bounds as (
    select *,
        (p + zz / (2 * n)) / (1 + zz / n) as middle,
        $z * sqrt(p * (1 - p) / n + zz / (4 * n * n)) / (1 + zz / n) as half
    from used
)
select memory_id, id, tier, hits, success_rate,
    case when n > 0 and p is not null then greatest(0.0, middle - half) end as low,
    case when n > 0 and p is not null then least(1.0, middle + half) end as high
from bounds
order by low desc nulls last, hits desc nulls last, id, memory_id
