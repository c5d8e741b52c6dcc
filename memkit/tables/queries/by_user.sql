-- What is there of each user, or of one?
-- $user_id = null
select user_id, count(*) as memories, count(distinct kind) as kinds, sum(length(text)) as chars,
    min(coalesce(created_at, updated_at))::date as since, max(coalesce(updated_at, created_at))::date as until
from memories
where user_id is not null and ($user_id::varchar is null or user_id = $user_id)
group by user_id
order by memories desc, user_id
