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
			if wait := p.wait(name, time.Now()); wait != progressEvery {
				t.Fatalf("the first wait is %v, want %v", wait, progressEvery)
			}
			<-time.After(progressEvery / 4)
			if wait := p.wait(name, time.Now()); wait != progressEvery*3/4 {
				t.Fatalf("after a quarter, the wait is %v, want %v", wait, progressEvery*3/4)
			}
			<-time.After(progressEvery * 3 / 4)
			if wait := p.wait(name, time.Now()); wait != 0 {
				t.Fatalf("after the whole interval, the wait is %v, want 0", wait)
			}
			p.forget(name)
		}
	})
}

func TestTheProgressOfAnObjectDoesNotWaitForThatOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 1000
		p := newProgress()
		for i := range objects {
			p.wait(types.NamespacedName{Name: strconv.Itoa(i)}, time.Now())
		}
		<-time.After(progressEvery)
		for i := range objects {
			if wait := p.wait(types.NamespacedName{Name: strconv.Itoa(i)}, time.Now()); wait != 0 {
				t.Fatalf("after %v, object %d of %d waits %v more", progressEvery, i, objects, wait)
			}
		}
	})
}
