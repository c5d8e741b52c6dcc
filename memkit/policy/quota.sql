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
-- only the facts of users over a limit need an order; their numbers must be the same wherever they are read
crowded as materialized (
    select user_id, row_number() over () as number,
        count(*) filter (where part = 'profile') as profiles,
        count(*) filter (where part = 'working') as workings,
        count(*) filter (where part = 'low') as lows,
        count(*) filter (where part = 'normal') as normals,
        count(*) - profiles - workings - lows - normals as highs,
        least(profiles, {profile}) + least(workings, {working}) + lows + normals + highs - {most} as excess
    from facts
    group by user_id
    having excess > 0 or profiles > {profile} or workings > {working}
),
placed as (
    select facts.* exclude (user_id, known), number,
        row_number() over (partition by number, part order by {oldest_first}) as place,
        coalesce(place > case part when 'profile' then {profile} when 'working' then {working} end, false) as refused
    from facts join crowded on facts.user_id is not distinct from crowded.user_id
),
-- of the last of each part that stays the newest, which was just saved
newest as (
    select number, row, part
    from placed join crowded using (number)
    where place = case part
        when 'profile' then least(profiles, {profile})
        when 'working' then least(workings, {working})
        when 'low' then lows
        when 'normal' then normals
        else highs
    end
    qualify row_number() over (partition by number order by {oldest_first}) = count(*) over (partition by number)
),
ranked as (
    select placed.row, refused, excess,
        placed.part in ('low', 'normal') and placed.row is distinct from newest.row as evictable,
        if(placed.part = 'low', place, lows - if(newest.part = 'low', 1, 0) + place) as turn,
        lows + normals - if(newest.part in ('low', 'normal'), 1, 0) as evictables
    from placed join crowded using (number) left join newest using (number)
)
select numbered.*,
    case when refused then 'limit' when evictable and turn <= excess then 'evicted' end as reason,
    reason is null as keep,
    case when evictable and excess > 0 then turn end as evict_rank,
    greatest(0, coalesce(excess - evictables, 0)) as over_limit
from numbered left join ranked using (row)
