package cgroup

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The smallest limits.
const (
	leastMilliCPU = 10 // The kernel grants 1 ms in each period of 100 ms.
	leastMemory   = 16 << 20
)

// Limits are the hard limits of a process and its children. Zero means no limit.
type Limits struct {
	MilliCPU int64 // thousandths of a processor
	Memory   int64 // bytes
}

// Parse reads limits such as cpu=1,memory=256Mi. One of them may be left out.
func Parse(text string) (Limits, error) {
	limits, given := Limits{}, map[string]bool{}
	most := int64(runtime.NumCPU()) * 1000
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if name != "cpu" && name != "memory" {
			return Limits{}, fmt.Errorf("there is no limit %q; allowed are cpu and memory, such as cpu=1,memory=256Mi", name)
		}
		if given[name] {
			return Limits{}, fmt.Errorf("%s is given twice", name)
		}
		given[name] = true
		quantity, err := resource.ParseQuantity(value)
		switch {
		case name == "cpu" && (err != nil || quantity.MilliValue() < leastMilliCPU || quantity.MilliValue() > most):
			return Limits{}, fmt.Errorf("cpu is %q; allowed is 0.01 to %d, the processors of this machine", value, most/1000)
		case name == "memory" && (err != nil || quantity.Value() < leastMemory):
			return Limits{}, fmt.Errorf("memory is %q; allowed are quantities from 16Mi", value)
		case name == "cpu":
			limits.MilliCPU = quantity.MilliValue()
		default:
			limits.Memory = quantity.Value()
		}
	}
	return limits, nil
}

// String returns the limits in words, such as "1 CPU and 256Mi".
func (l Limits) String() string {
	var words []string
	if l.MilliCPU > 0 {
		words = append(words, resource.NewMilliQuantity(l.MilliCPU, resource.DecimalSI).String()+" CPU")
	}
	if l.Memory > 0 {
		words = append(words, resource.NewQuantity(l.Memory, resource.BinarySI).String())
	}
	return strings.Join(words, " and ")
}

// Check returns an error that says why this process may not make such a group, or nil. It makes a group
// and removes it.
func Check(limits Limits) error {
	group, err := New(limits)
	if err != nil {
		return err
	}
	return group.Close()
}

// errNone is the error of New without a limit.
var errNone = errors.New("make a control group: there is no limit")
