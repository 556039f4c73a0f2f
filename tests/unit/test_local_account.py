"""Postgres runs as an account without privileges, wherever the project lies."""

import os
from pathlib import Path

import pytest

from tidemark_local import postgres
from tidemark_local.postgres import Account, home_for, unprivileged
from tidemark_local.watch import Watch

NOBODY = Account(None, None)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The account reaches only what lies in the returned folder."""
    open_to_all = tmp_path / "elsewhere"
    open_to_all.mkdir()
    monkeypatch.setattr(postgres, "ELSEWHERE", open_to_all)
    monkeypatch.setattr(Account, "reaches", lambda self, path: path.is_relative_to(open_to_all))
    return open_to_all


def test_data_lies_in_the_state_folder_when_the_account_gets_there(tmp_path: Path) -> None:
    assert home_for(NOBODY, tmp_path / "postgres", Watch()) == tmp_path / "postgres"


def test_a_closed_folder_leads_elsewhere_and_there_again_next_time(
    tmp_path: Path, closed: Path
) -> None:
    told: list[str] = []
    link = tmp_path / "postgres"
    home = home_for(NOBODY, link, Watch(lambda service, text: told.append(text)))
    assert home.parent == closed
    assert str(home) in told[0]
    assert home_for(NOBODY, link, Watch()) == home


def test_postgres_never_runs_as_root() -> None:
    assert (unprivileged().uid is None) == (os.geteuid() != 0)
    assert unprivileged().uid != 0
