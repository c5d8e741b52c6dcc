-- Which wisdom facts do relations support, which do they contradict, and by how much?
with claims as (
    select to_id as fact_id,
        coalesce(sum(weight) filter (where type = 'supports'), 0.0) as supported,
        coalesce(sum(weight) filter (where type = 'contradicts'), 0.0) as contradicted,
        count(*) filter (where type = 'supports') as supports,
        count(*) filter (where type = 'contradicts') as contradictions
    from relations
    where from_id is distinct from to_id
    group by all
)
select memory_id, fact_id, category, content, confidence,
    coalesce(supported, 0.0) as supported,
    coalesce(contradicted, 0.0) as contradicted,
    coalesce(supports, 0) as supports,
    coalesce(contradictions, 0) as contradictions,
    coalesce(supported, 0.0) - coalesce(contradicted, 0.0) as balance
from wisdom_facts left join claims using (fact_id)
order by balance desc, confidence desc nulls last, fact_id, memory_id
