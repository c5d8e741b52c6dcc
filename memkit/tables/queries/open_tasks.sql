-- Which check boxes of HEARTBEAT.md are not ticked?
select path, line, text from checklist where not done order by path, line
