// Package driver is what package retry is made of, for those who drive
// operations themselves: in a journal that outlives the process, in simulated
// time, or with an admission of their own. Who calls functions needs package
// retry alone, which has the same types under its own names.
//
// Three parts, each of use without those after it:
//
//   - [Policy] says how an operation is retried, and [Class] and [MatcherByName]
//     what an error is. The interfaces by which errors tell what they know begin
//     with [HTTPStatuser].
//   - [Machine] is the decisions. It reads no clock and does nothing: it is told
//     how an attempt ended and when, and says what to do. Its [State] goes into a
//     journal, and [ResumeMachine] continues from it.
//   - [Drive] is the one driver of it. It takes an [Operation]: the policy, the
//     state to continue from, a [Clock], an [Admission] (guard.Admission is a breaker
//     and limits), an [Observer].
package driver
