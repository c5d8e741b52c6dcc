-- Which check boxes are not ticked, where they stand or in a later log, in the memories of any format?
select path, line, text from {unticked} where tick_id is null order by path, line, memory_id, text
