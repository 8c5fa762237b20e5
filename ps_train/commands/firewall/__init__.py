"""The firewall: only the job's hosts reach the job's ports.

The idea: the flags of a job say who belongs to it, so they are enough to make the rules, and the rules live as long
as their process.

Data structures: `Rules` are the text for nftables, `Table` is one table in this network namespace, and `RuleSource`
follows names and the cluster file.

It does not touch tables of others; decision 0034.

Files:

    command.py   A firewall for the ports of a job on this host: only the job's hosts reach them
    nftables.py  Tables of nftables: put in place, looked for and removed with the program `nft`
    rules.py     The rules of a job's firewall on one host, as text for nft (nftables)
"""
