-- A conclusion is as old as the newest of its evidence, whenever it was drawn.
CREATE VIEW conclusion_dates AS
SELECT id, coalesce(
         (SELECT max(coalesce(as_of, valid_at)) FROM observation_facts JOIN facts ON facts.id = fact_id
          WHERE observation_id = analysis_runs.id),
         created_at) AS at
FROM analysis_runs
UNION ALL
SELECT id, coalesce(
         (SELECT max(at) FROM (
            SELECT coalesce(as_of, valid_at) AS at FROM mental_model_sources JOIN facts ON facts.id = source_id
            WHERE model_id = mental_models.id AND mental_model_sources.source_type = 'fact'
            UNION ALL
            SELECT coalesce(as_of, valid_at) FROM mental_model_sources
              JOIN observation_facts ON observation_id = source_id JOIN facts ON facts.id = fact_id
            WHERE model_id = mental_models.id AND mental_model_sources.source_type = 'observation')),
         created_at)
FROM mental_models;
