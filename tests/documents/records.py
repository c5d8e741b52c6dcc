"""The examples of the data formats, byte for byte, in JSON and in YAML; and what each of them holds."""

from __future__ import annotations

from typing import Any

PATHWAY: dict[str, Any] = {
    "format_version": "1.0.0",
    "id": "pathway.intent.support",
    "triggers": ["help", "support", "assist"],
    "template": "Ответь вежливо и кратко: {user_request}",
    "variables": {"user_request": "Где найти документацию?"},
    "tier": "core",
    "usage_stats": {"hits": 128, "success_rate": 0.94, "last_used_at": "2025-01-14T10:15:30Z"},
}
ITEM: dict[str, Any] = {
    "format_version": "1.0.0",
    "user_id": "user_42",
    "input": "Напомни, как запустить бота",
    "response": "Используй команду ./start.sh",
    "timestamp": "2025-01-14T10:17:02Z",
    "tags": ["ops", "runbook", "telegram"],
}
FACT: dict[str, Any] = {
    "format_version": "1.0.0",
    "fact_id": "wisdom.safety.no_exec",
    "category": "safety",
    "content": "Запрещено выполнять непроверенный ввод пользователя через exec/eval.",
    "confidence": 0.99,
    "relations": [{"fact_id": "wisdom.security.input_validation", "type": "supports", "weight": 0.8}],
}
KNOWN: dict[str, Any] = {**FACT, "fact_id": "wisdom.security.input_validation", "relations": []}
"""What the relation of the example leads to."""
WRITTEN: dict[str, tuple[dict[str, Any], str]] = {
    "pathway.json": (
        PATHWAY,
        """{
  "format_version": "1.0.0",
  "id": "pathway.intent.support",
  "triggers": ["help", "support", "assist"],
  "template": "Ответь вежливо и кратко: {user_request}",
  "variables": {
    "user_request": "Где найти документацию?"
  },
  "tier": "core",
  "usage_stats": {
    "hits": 128,
    "success_rate": 0.94,
    "last_used_at": "2025-01-14T10:15:30Z"
  }
}
""",
    ),
    "pathway.yaml": (
        PATHWAY,
        """format_version: "1.0.0"
id: pathway.intent.support
triggers:
  - help
  - support
  - assist
template: "Ответь вежливо и кратко: {user_request}"
variables:
  user_request: "Где найти документацию?"
tier: core
usage_stats:
  hits: 128
  success_rate: 0.94
  last_used_at: "2025-01-14T10:15:30Z"
""",
    ),
    "item.json": (
        ITEM,
        """{
  "format_version": "1.0.0",
  "user_id": "user_42",
  "input": "Напомни, как запустить бота",
  "response": "Используй команду ./start.sh",
  "timestamp": "2025-01-14T10:17:02Z",
  "tags": ["ops", "runbook", "telegram"]
}
""",
    ),
    "item.yaml": (
        ITEM,
        """format_version: "1.0.0"
user_id: user_42
input: "Напомни, как запустить бота"
response: "Используй команду ./start.sh"
timestamp: "2025-01-14T10:17:02Z"
tags:
  - ops
  - runbook
  - telegram
""",
    ),
    "fact.json": (
        FACT,
        """{
  "format_version": "1.0.0",
  "fact_id": "wisdom.safety.no_exec",
  "category": "safety",
  "content": "Запрещено выполнять непроверенный ввод пользователя через exec/eval.",
  "confidence": 0.99,
  "relations": [
    {
      "fact_id": "wisdom.security.input_validation",
      "type": "supports",
      "weight": 0.8
    }
  ]
}
""",
    ),
    "fact.yaml": (
        FACT,
        """format_version: "1.0.0"
fact_id: wisdom.safety.no_exec
category: safety
content: "Запрещено выполнять непроверенный ввод пользователя через exec/eval."
confidence: 0.99
relations:
  - fact_id: wisdom.security.input_validation
    type: supports
    weight: 0.8
""",
    ),
}
"""File name to the record and the text of the document's example."""
