package ideal

import (
	"testing"
	"time"
)

func TestAStatusMayBeLeftOutForTwiceAsLongAsTheStatefulSetControllerTakes(t *testing.T) {
	for _, step := range []struct{ took, want time.Duration }{
		{50 * time.Millisecond, 100 * time.Millisecond}, {5 * time.Second, 10 * time.Second}, {time.Hour, mostHeld},
	} {
		var l lag
		now := time.Now()
		if held := l.held(now); held != 0 {
			t.Errorf("before any measurement it is %v, want 0", held)
		}
		l.took(step.took, now)
		if held := l.held(now); held != step.want {
			t.Errorf("after %v it is %v, want %v", step.took, held, step.want)
		}
		if held := l.held(now.Add(2 * memory)); held != 0 {
			t.Errorf("long afterwards it is %v, want 0", held)
		}
	}
}
