-- Which files hold the most text?
select path, count(*) as memories, sum(length(text)) as chars
from memories
group by path
order by chars desc, path
limit 20
