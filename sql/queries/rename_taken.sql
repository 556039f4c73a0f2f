-- Whether a region has the name.
SELECT EXISTS (SELECT FROM tidemark.regions WHERE region = %(new)s)
