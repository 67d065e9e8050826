package main

import "testing"

// BenchmarkAll runs every case of the table.
func BenchmarkAll(b *testing.B) {
	for _, g := range groups() {
		b.Run(g.name, func(b *testing.B) {
			for _, c := range g.contenders {
				b.Run(c.name, c.run)
			}
		})
	}
}
