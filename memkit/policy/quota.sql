with numbered as (
    -- a table of one's own has no row
    select * replace (coalesce(row, row_number() over () - 1) as row)
    from (select null::bigint as row where false union all by name from input)
),
facts as (
    select row, memory_id, user_id, path, line_start,
        coalesce(updated_at, created_at) as known,
        case when known > $until then $until else known end as dated,
        case when kind <> 'archive' then kind when importance in ('low', 'high') then importance else 'normal' end
            as part
    from numbered
    where {counted} and not {expired}
),
-- only the facts of users over a limit need an order
crowded as (
    select user_id,
        count(*) filter (where part = 'profile') as profiles,
        count(*) filter (where part = 'working') as workings,
        count(*) filter (where part = 'low') as lows,
        count(*) filter (where part in ('low', 'normal')) as weak,
        count(*) - greatest(0, profiles - {profile}) - greatest(0, workings - {working})
            - {most} as excess
    from facts
    group by user_id
    having excess > 0 or profiles > {profile} or workings > {working}
),
placed as (
    select facts.*,
        row_number() over (partition by facts.user_id, part order by {oldest_first}) as place,
        coalesce(place > case part when 'profile' then {profile} when 'working' then {working} end, false) as refused
    from facts semi join crowded on facts.user_id is not distinct from crowded.user_id
),
-- the last of each part that stays; the newest of these was just saved
latest as (
    select user_id, part, max(place) as place
    from placed
    where not refused
    group by user_id, part
),
newest as (
    select user_id, row, part
    from placed semi join latest on placed.user_id is not distinct from latest.user_id
        and placed.part = latest.part and placed.place = latest.place
    qualify row_number() over (partition by user_id order by {oldest_first}) = count(*) over (partition by user_id)
),
ranked as (
    select placed.row, refused, excess,
        placed.part in ('low', 'normal') and placed.row is distinct from newest.row as evictable,
        if(placed.part = 'low', place, lows - if(newest.part = 'low', 1, 0) + place) as turn,
        weak - if(newest.part in ('low', 'normal'), 1, 0) as evictables
    from placed
        join crowded on placed.user_id is not distinct from crowded.user_id
        left join newest on placed.user_id is not distinct from newest.user_id
)
select numbered.*,
    case when refused then 'limit' when evictable and turn <= excess then 'evicted' end as reason,
    reason is null as keep,
    case when evictable and excess > 0 then turn end as evict_rank,
    greatest(0, coalesce(excess - evictables, 0)) as over_limit
from numbered left join ranked using (row)
