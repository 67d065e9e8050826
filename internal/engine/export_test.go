package engine

// LeaveOutCompanion starts the runs of this process without a companion.
func LeaveOutCompanion() { noCompanion = true }
