"""The pages of regions in Airflow's UI.

Doors: none; Airflow loads plugin.py and provider.py.

They never write, and Airflow's api-server never waits for them: see asking.py.
"""
