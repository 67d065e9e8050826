package retry
import ("testing";"time";"errors")
var dsink Decision
func BenchmarkNext(b *testing.B){ p:=Policy{Attempts:4}; e:=errors.New("x"); for b.Loop(){ m:=NewMachine(&p,time.Time{}); dsink=m.Next(e,time.Time{})} }
func BenchmarkInspect(b *testing.B){ e:=errors.New("x"); var t traits; for b.Loop(){ t=inspect(e)}; _=t }
func BenchmarkDelay(b *testing.B){ p:=Policy{Attempts:4}; var d time.Duration; for b.Loop(){ d+=p.Backoff.Delay(1,0,nil)}; _=d }
func BenchmarkNewM(b *testing.B){ p:=Policy{Attempts:4}; for b.Loop(){ m:=NewMachine(&p,time.Time{}); dsink.Delay=m.state.Slept} }
