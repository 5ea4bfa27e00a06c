-- Nothing wrote them. What an analysis found is its text, and the facts that it rests on.
DROP TABLE facets;
