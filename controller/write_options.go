package controller

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// WriteOption configures a write of the client. A write fails if it is given an option that does not
// apply to it.
type WriteOption interface{ write(how *writing) }

type writeOption func(*writing)

func (o writeOption) write(how *writing) { o(how) }

// writing collects the options of a write.
type writing struct {
	kind            schema.GroupVersionKind // for RetryOnConflict alone
	fieldManager    string
	fieldValidation string
	subresource     string
	dryRun          bool
	force           bool
	createOnly      bool
	adopt           bool
	readFirst       bool
	unconditional   bool
	propagation     *metav1.DeletionPropagation
	grace           *int64
	ifUnchanged     bool
	asked           time.Time // when the request was made
	wrong           error
}

// DryRun makes the API server check and answer a write without storing it. The cache does not show the
// write.
func DryRun() WriteOption { return writeOption(func(w *writing) { w.dryRun = true }) }

// Force makes an [Apply] take over fields that another field manager owns with other values. Without it,
// such an Apply fails with a conflict that names the fields and their managers.
func Force() WriteOption { return writeOption(func(w *writing) { w.force = true }) }

// CreateOnly makes an [Apply] fail if the object exists, with an error for which apierrors.IsAlreadyExists is
// true. Nothing is changed then. Unlike [Create], it records the fields as applied, so that a later Apply
// removes the ones that it leaves out.
func CreateOnly() WriteOption { return writeOption(func(w *writing) { w.createOnly = true }) }

// Adopt lets an [Apply] with a controller reference take over an object that no other object controls,
// whichever client made it. The object is deleted with its owner from then on.
func Adopt() WriteOption { return writeOption(func(w *writing) { w.adopt = true }) }

// ReadFirst makes an [Apply] read the object from the API server first. It sends nothing if the managed fields show that
// the field manager has applied the same configuration before, and that nothing has changed it since. It suits the first
// Apply after a start, of a kind whose whole objects are not in the cache: otherwise each one is sent once in vain.
func ReadFirst() WriteOption { return writeOption(func(w *writing) { w.readFirst = true }) }

// Subresource makes [Update], [Patch] and [Apply] write a subresource of the object, such as "status".
func Subresource(name string) WriteOption {
	return writeOption(func(w *writing) { w.subresource = name })
}

// Unconditional makes a [Patch] with [MergeFrom] or [StrategicMergeFrom] apply to the object as it is,
// even if it was changed since it was read. If it is another object of the same name, with another uid, the patch fails with an
// invalid error.
func Unconditional() WriteOption { return writeOption(func(w *writing) { w.unconditional = true }) }

// These are the ways in which the API server handles unknown and duplicate fields of a written object.
const (
	ValidateStrict = metav1.FieldValidationStrict // the write fails
	ValidateWarn   = metav1.FieldValidationWarn   // the write succeeds with a warning; the API server's default
	ValidateIgnore = metav1.FieldValidationIgnore // the fields are dropped
)

// FieldValidation sets how the API server handles unknown and duplicate fields: [ValidateStrict],
// [ValidateWarn] or [ValidateIgnore].
func FieldValidation(how string) WriteOption {
	return writeOption(func(w *writing) {
		switch how {
		case ValidateStrict, ValidateWarn, ValidateIgnore:
			w.fieldValidation = how
		default:
			w.wrong = fmt.Errorf("FieldValidation is %q; allowed are %s, %s and %s", how, ValidateStrict, ValidateWarn, ValidateIgnore)
		}
	})
}

// IfUnchanged makes a [Delete] fail with a conflict if the object was changed since it was read.
func IfUnchanged() WriteOption { return writeOption(func(w *writing) { w.ifUnchanged = true }) }

// Propagation sets what becomes of the objects that a deleted object owns: see
// metav1.DeletionPropagation. The default depends on the kind, and is Background for most.
func Propagation(policy metav1.DeletionPropagation) WriteOption {
	return writeOption(func(w *writing) {
		switch policy {
		case metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
			w.propagation = &policy
		default:
			w.wrong = fmt.Errorf("Propagation is %q; allowed are Background, Foreground and Orphan", policy)
		}
	})
}

// GracePeriod sets how long a deleted pod may take to terminate; 0 kills it. It is rounded up to seconds.
func GracePeriod(grace time.Duration) WriteOption {
	return writeOption(func(w *writing) {
		if grace < 0 {
			w.wrong = fmt.Errorf("GracePeriod is %v; allowed is 0 and above", grace)
			return
		}
		w.grace = new(int64((grace + time.Second - 1) / time.Second))
	})
}

// allowed are sets of options that apply to a verb.
type allowed uint8

const (
	mayApply allowed = 1 << iota
	mayNameSubresource
	mayBeUnconditional
	mayDelete
	mayNotValidate // the verb has no field validation, and no field manager
)

// writingOf collects the options of a write.
func writingOf(options []WriteOption, may allowed) (writing, error) {
	made := writing{}
	for _, option := range options {
		if option != nil {
			option.write(&made)
		}
	}
	misplaced := func(name string, given bool, applies bool) error {
		if given && !applies {
			return fmt.Errorf("%s does not apply to this write; leave it out", name)
		}
		return nil
	}
	for _, err := range []error{
		made.wrong,
		misplaced("Force", made.force, may&mayApply != 0),
		misplaced("CreateOnly", made.createOnly, may&mayApply != 0 && made.subresource == ""),
		misplaced("Adopt", made.adopt, may&mayApply != 0 && made.subresource == ""),
		misplaced("ReadFirst", made.readFirst, may&mayApply != 0 && !made.createOnly),
		misplaced("Subresource", made.subresource != "", may&mayNameSubresource != 0),
		misplaced("Unconditional", made.unconditional, may&mayBeUnconditional != 0),
		misplaced("Propagation", made.propagation != nil, may&mayDelete != 0),
		misplaced("GracePeriod", made.grace != nil, may&mayDelete != 0),
		misplaced("IfUnchanged", made.ifUnchanged, may&mayDelete != 0),
		misplaced("FieldValidation", made.fieldValidation != "", may&mayNotValidate == 0),
		misplaced("FieldManager", made.fieldManager != "", may&mayNotValidate == 0),
	} {
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

// These are the query parameters of the fields of metav1.CreateOptions, PatchOptions and UpdateOptions.
// They are set directly: encoding those options took a twentieth of the CPU of an operator that creates.
const (
	paramFieldManager    = "fieldManager"
	paramFieldValidation = "fieldValidation"
	paramDryRun          = "dryRun"
	paramForce           = "force"
)

// params sets the query parameters of a write that is not a deletion.
func (w *writing) params(request *rest.Request, fieldManager string) *rest.Request {
	if w.fieldManager != "" {
		fieldManager = w.fieldManager
	}
	w.asked = time.Now()
	request.Param(paramFieldManager, fieldManager)
	if w.fieldValidation != "" {
		request.Param(paramFieldValidation, w.fieldValidation)
	}
	if w.dryRun {
		request.Param(paramDryRun, metav1.DryRunAll)
	}
	if w.force {
		request.Param(paramForce, "true")
	}
	return request
}
