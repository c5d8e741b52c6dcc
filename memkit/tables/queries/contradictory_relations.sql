-- Which pairs of facts both support and contradict each other?
select least(from_id, to_id) as one, greatest(from_id, to_id) as other,
    sum(weight) filter (where type = 'supports') as supports,
    sum(weight) filter (where type = 'contradicts') as contradicts
from relations
group by one, other
having count(*) filter (where type = 'supports') > 0 and count(*) filter (where type = 'contradicts') > 0
order by one, other
