"""`python -m ps_train.doctor`."""

from ps_train.commands.doctor.command import run

if __name__ == "__main__":
    run()
