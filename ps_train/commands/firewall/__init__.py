"""The firewall: only the job's hosts reach the job's ports.

Files:

    command.py   A firewall for the ports of a job on this host: only the job's hosts reach them
    nftables.py  Tables of nftables: put in place, looked for and removed with the program `nft`
    rules.py     The rules of a job's firewall on one host, as text for nft (nftables)
"""
