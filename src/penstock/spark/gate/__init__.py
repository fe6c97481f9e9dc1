"""The gate: admits or sheds each tuple of a streaming DataFrame by the plan in force."""
