"""The stages of an audit: plan, sample, answers of people, report."""
