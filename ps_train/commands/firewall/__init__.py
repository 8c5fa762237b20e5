"""The firewall: only the job's hosts reach the job's ports.

The idea: the flags of a job say who belongs to it, so they are enough to make the rules, and the rules live as long
as their process.

Data structures: `Rules` are the text for nftables, `Table` is one table in this network namespace, and `RuleSource`
follows names and the cluster file.

It does not touch tables of others; decision 0034.
"""
