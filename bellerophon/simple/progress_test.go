package simple

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestOneObjectsProgressIsWrittenOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress()
		name := types.NamespacedName{Name: "pegasus"}
		for range 10 {
			if wait := p.wait(name); wait != progressEvery {
				t.Fatalf("at first it waits %v, want %v", wait, progressEvery)
			}
			<-time.After(progressEvery / 4)
			if wait := p.wait(name); wait != progressEvery*3/4 {
				t.Fatalf("after a fourth it waits %v", wait)
			}
			<-time.After(progressEvery * 3 / 4)
			if wait := p.wait(name); wait != 0 {
				t.Fatalf("after all of it, it waits %v more", wait)
			}
			p.forget(name)
		}
	})
}

func TestTheProgressOfManyIsWrittenOnceASecondBeyondABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, seconds = 1000, 60
		p, begun := newProgress(), time.Now()
		due := map[types.NamespacedName]time.Duration{}
		for i := range objects {
			name := types.NamespacedName{Name: strconv.Itoa(i)}
			due[name] = p.wait(name)
		}
		written := 0
		for time.Since(begun) < seconds*time.Second {
			<-time.After(time.Second)
			for name, at := range due {
				if time.Since(begun) < at {
					continue
				}
				wait := p.wait(name)
				if wait == 0 {
					written++
				}
				due[name] = time.Since(begun) + max(wait, progressEvery)
			}
		}
		if most := progressBurst + seconds; written > most || written < most/2 {
			t.Errorf("%d statuses were written in %d s, want %d at most, and no less than half", written, seconds, most)
		}
	})
}
