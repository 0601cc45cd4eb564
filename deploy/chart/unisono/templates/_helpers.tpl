{{- define "unisono.selector" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default "unisono" | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "unisono.labels" -}}
{{ include "unisono.selector" . }}
app.kubernetes.io/part-of: unisono
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "unisono.components" -}}
scheduler controllers{{ if .Values.webhook.enabled }} webhook{{ end }}{{ if .Values.agent.simulate }} agent{{ end }}
{{- end }}

{{- define "unisono.accountAnnotations" -}}
{{- with .Values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{- define "unisono.podAnnotations" -}}
{{- with .Values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
{{- end }}
{{- end }}

{{- /* Where the pods of a component may run, from its values. */}}
{{- define "unisono.placement" -}}
{{- with .nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .affinity }}
      affinity: {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
{{- end }}
{{- end }}

{{- define "unisono.port" -}}
{{- get (dict "scheduler" "8080" "controllers" "8081" "webhook" "8083" "agent" "8082") . -}}
{{- end }}

{{- /* Where the image comes from; a digest stands for itself, whatever the tag. */}}
{{- define "unisono.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end }}{{ $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{- /* Of pods, as their accounts may be others'; names are plain or as Kubernetes writes them. */}}
{{- define "unisono.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
        {{- end }}
{{- end }}
{{- end }}
