"""All mutations of the package, a module for each part of it."""

from __future__ import annotations

from tests.mutation.catalogue import floors, graph, programs, roles, updates

MUTATIONS = [*updates.MUTATIONS, *graph.MUTATIONS, *roles.MUTATIONS, *floors.MUTATIONS, *programs.MUTATIONS]
