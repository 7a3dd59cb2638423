"""Compares two ways to repay a home loan: the same instalment each month, or the same share of the debt."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Loan:
    """A sum borrowed at a fixed yearly rate (0.035 is 3.5 %) for a number of months."""

    principal: float
    yearly_rate: float
    months: int

    @property
    def monthly_rate(self) -> float:
        return self.yearly_rate / 12

    def annuity(self) -> float:
        """Return the instalment that stays the same until the debt is gone."""
        if self.monthly_rate == 0:
            return self.principal / self.months
        growth = (1 + self.monthly_rate) ** self.months
        return self.principal * self.monthly_rate * growth / (growth - 1)


def total_interest_linear(loan: Loan) -> float:
    """Return the interest paid in all when an equal part of the debt is paid off each month."""
    # The debt falls in a straight line, so on average half of it, and half a share more, bears interest.
    return loan.principal * loan.monthly_rate * (loan.months + 1) / 2


def cheaper_by(loan: Loan) -> float:
    """Return how much less interest the straight line costs than the constant instalment."""
    return loan.annuity() * loan.months - loan.principal - total_interest_linear(loan)
