// Package crashtest decides what becomes of each effect that a program and its children
// have on files, and knows what a power cut leaves of them. It is for tests.
//
// [Start] runs a program whose effects the kernel reports one by one, before each is made
// (a seccomp listener): writes, syncs, files opened to be made, renames, removals,
// directories, links, and programs started. A function of the test answers each with a
// [Verdict]: it is made, it fails with an error of the kernel, or processes end there. So
// a test can fail the n-th effect of a run for every n, and git is in it as we are: its
// files are written by system calls too.
//
// [Disk] is told the same effects and remembers which of them were synced. It gives what
// a file system may hold after a power cut at any moment.
//
// Linux on amd64 only; [Supported] says why not elsewhere.
package crashtest
