-- Members of forgotten runs; one that contributed to a kept batch stays.
DELETE FROM tidemark.members WHERE member IN (
    SELECT m.member FROM tidemark.members m
    WHERE m.region = %(region)s
      AND m.epoch <= (SELECT n.epoch - %(retain)s FROM tidemark.regions n WHERE n.region = %(region)s)
      AND NOT EXISTS (SELECT FROM tidemark.contributions c WHERE c.member = m.member)
    ORDER BY m.epoch LIMIT %(step)s)
