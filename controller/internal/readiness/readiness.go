// Package readiness knows when an object is ready.
package readiness

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Result is the result of a ready check.
type Result struct {
	Ready   bool
	Failed  bool   // the object will not become ready unless it is changed
	Message string // why it is not ready

	// Condition is the condition that decided, if one did.
	Condition *metav1.Condition
}

func ready() Result { return Result{Ready: true} }

func notYet(format string, details ...any) Result {
	return Result{Message: fmt.Sprintf(format, details...)}
}

func willNot(format string, details ...any) Result {
	return Result{Failed: true, Message: fmt.Sprintf(format, details...)}
}

// Of reports whether an object is ready, by the rules of dependents.IsReady.
func Of(object streams.Object) Result {
	switch typed := object.(type) {
	case *appsv1.Deployment:
		return deploymentReady(typed)
	case *appsv1.StatefulSet:
		return statefulSetReady(typed)
	case *appsv1.DaemonSet:
		return daemonSetReady(typed)
	case *appsv1.ReplicaSet:
		if typed.Status.ObservedGeneration < typed.Generation {
			return notYet("its controller has not seen generation %d", typed.Generation)
		}
		return enough("available", typed.Status.AvailableReplicas, replicas(typed.Spec.Replicas))
	case *batchv1.Job:
		return jobReady(typed)
	case *corev1.Pod:
		return podReady(typed)
	case *corev1.PersistentVolumeClaim:
		switch typed.Status.Phase {
		case corev1.ClaimBound:
			return ready()
		case corev1.ClaimLost:
			return willNot("its volume is lost")
		}
		return notYet("it is not bound")
	case *corev1.Service:
		if typed.Spec.Type == corev1.ServiceTypeLoadBalancer && len(typed.Status.LoadBalancer.Ingress) == 0 {
			return notYet("its load balancer has no address")
		}
		return ready()
	case *corev1.Namespace:
		if typed.Status.Phase != corev1.NamespaceActive {
			return notYet("it is not active")
		}
		return ready()
	}
	if _, open := object.(*unstructured.Unstructured); !open && strings.HasPrefix(reflect.TypeOf(object).Elem().PkgPath(), "k8s.io/api/") {
		return ready()
	}
	return conditionsReady(object)
}

func replicas(wanted *int32) int32 {
	if wanted == nil {
		return 1
	}
	return *wanted
}

func enough(what string, got, wanted int32) Result {
	if got < wanted {
		return notYet("%d of %d replicas are %s", got, wanted, what)
	}
	return ready()
}

func deploymentReady(d *appsv1.Deployment) Result {
	wanted := replicas(d.Spec.Replicas)
	if d.Status.ObservedGeneration < d.Generation {
		return notYet("its controller has not seen generation %d", d.Generation)
	}
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse {
			return notYet("%s: %s", condition.Reason, condition.Message) // It may still progress later.
		}
	}
	if updated := enough("updated", d.Status.UpdatedReplicas, wanted); !updated.Ready {
		return updated
	}
	if d.Status.Replicas > d.Status.UpdatedReplicas {
		return notYet("%d old replicas remain", d.Status.Replicas-d.Status.UpdatedReplicas)
	}
	return enough("available", d.Status.AvailableReplicas, wanted)
}

func statefulSetReady(s *appsv1.StatefulSet) Result {
	wanted := replicas(s.Spec.Replicas)
	if s.Status.ObservedGeneration < s.Generation {
		return notYet("its controller has not seen generation %d", s.Generation)
	}
	if s.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		updated := wanted
		if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
			updated -= min(*rolling.Partition, wanted)
		}
		if result := enough("updated", s.Status.UpdatedReplicas, updated); !result.Ready {
			return result
		}
	}
	if s.Status.Replicas > wanted {
		return notYet("%d replicas remain of more than the desired %d", s.Status.Replicas, wanted)
	}
	return enough("available", s.Status.AvailableReplicas, wanted)
}

func daemonSetReady(d *appsv1.DaemonSet) Result {
	if d.Status.ObservedGeneration < d.Generation {
		return notYet("its controller has not seen generation %d", d.Generation)
	}
	if d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		if result := enough("updated", d.Status.UpdatedNumberScheduled, d.Status.DesiredNumberScheduled); !result.Ready {
			return result
		}
	}
	return enough("available", d.Status.NumberAvailable, d.Status.DesiredNumberScheduled)
}

func jobReady(j *batchv1.Job) Result {
	for _, condition := range j.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			return ready()
		case condition.Type == batchv1.JobFailed:
			return willNot("the job failed: %s: %s", condition.Reason, condition.Message)
		}
	}
	return notYet("the job is not complete")
}

func podReady(p *corev1.Pod) Result {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return ready()
	case corev1.PodFailed:
		return willNot("the pod failed: %s", p.Status.Reason)
	}
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			result := Result{Ready: condition.Status == corev1.ConditionTrue, Message: "the pod is not ready"}
			result.Condition = &metav1.Condition{Reason: condition.Reason, Message: condition.Message, LastTransitionTime: condition.LastTransitionTime}
			if result.Ready {
				result.Message = ""
			}
			return result
		}
	}
	return notYet("the pod is not ready")
}

// readyConditions are the types of conditions that stand for readiness, the best one first.
var readyConditions = []string{"Ready", "Available", "Established"}

// conditionsReady reports whether a custom resource is ready.
func conditionsReady(object streams.Object) Result {
	for _, of := range readyConditions {
		if result, has := Condition(object, of); has {
			return result
		}
	}
	if hasConditions(reflect.TypeOf(object)) {
		return notYet("it has none of the conditions %s", strings.Join(readyConditions, ", "))
	}
	return ready()
}

// hasConditions reports whether a type has a field Status.Conditions.
func hasConditions(of reflect.Type) bool {
	if of.Kind() == reflect.Pointer && of.Elem().Kind() == reflect.Struct {
		status, has := of.Elem().FieldByName("Status")
		if has && status.Type.Kind() == reflect.Struct {
			_, has = status.Type.FieldByName("Conditions")
			return has
		}
	}
	return false
}

// Condition reports whether a condition is true and not of an older generation, and whether the object has it.
func Condition(object streams.Object, conditionType string) (result Result, has bool) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return notYet("its conditions cannot be read: %v", err), true
	}
	stale := func(observed int64, known bool) bool { return known && observed < object.GetGeneration() }
	if observed, known, _ := unstructured.NestedInt64(content, "status", "observedGeneration"); stale(observed, known) {
		return notYet("its status is of generation %d, and it is at %d", observed, object.GetGeneration()), true
	}
	conditions, _, _ := unstructured.NestedSlice(content, "status", "conditions")
	for _, one := range conditions {
		condition, is := one.(map[string]any)
		if !is || condition["type"] != conditionType {
			continue
		}
		if observed, known, _ := unstructured.NestedInt64(condition, "observedGeneration"); stale(observed, known) {
			return notYet("condition %s is of generation %d, and it is at %d", conditionType, observed, object.GetGeneration()), true
		}
		if condition["status"] == "True" {
			return Result{Ready: true, Condition: decided(condition)}, true
		}
		message := fmt.Sprintf("condition %s is %v", conditionType, condition["status"])
		for _, why := range []string{"reason", "message"} {
			if text, is := condition[why].(string); is && text != "" {
				message += ": " + text
			}
		}
		return Result{Message: message, Condition: decided(condition)}, true
	}
	return Result{}, false
}

// decided returns what a condition says.
func decided(condition map[string]any) *metav1.Condition {
	made := &metav1.Condition{}
	made.Reason, _ = condition["reason"].(string)
	made.Message, _ = condition["message"].(string)
	if text, is := condition["lastTransitionTime"].(string); is {
		_ = made.LastTransitionTime.UnmarshalQueryParameter(text) // A time that cannot be read stays unknown.
	}
	return made
}
