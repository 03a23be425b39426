"""The paper's tables, one command each: what they hold, at which size, run, shown, and what the paper says beside."""
