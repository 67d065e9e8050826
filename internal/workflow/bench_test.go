package workflow_test

import "testing"

// BenchmarkLargeFile reads 2,000 lines with 30 mistakes.
func BenchmarkLargeFile(b *testing.B) {
	src := bigFile()
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		parse(b, src)
	}
}
