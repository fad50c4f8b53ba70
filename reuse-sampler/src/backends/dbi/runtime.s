# What runs inside the program besides translated code: entry points that save its registers, ask the observer, and
# do what it answers. It touches no vector register, no memory of the program's and nothing behind FS.

.macro SAVE at
    mov gs:[\at], rax
    mov gs:[\at+8], rcx
    mov gs:[\at+16], rdx
    mov gs:[\at+24], rbx
    mov gs:[\at+32], rsp
    mov gs:[\at+40], rbp
    mov gs:[\at+48], rsi
    mov gs:[\at+56], rdi
    mov gs:[\at+64], r8
    mov gs:[\at+72], r9
    mov gs:[\at+80], r10
    mov gs:[\at+88], r11
    mov gs:[\at+96], r12
    mov gs:[\at+104], r13
    mov gs:[\at+112], r14
    mov gs:[\at+120], r15
.endm

# The flags of arithmetic; no other is changed here.
.macro RESTORE at, flags
    mov rax, gs:[\flags]
    mov ecx, eax
    shr ecx, 11
    and ecx, 1
    mov ah, al
    mov al, cl
    add al, 127
    sahf
    mov rsp, gs:[\at+32]
    mov rax, gs:[\at]
    mov rcx, gs:[\at+8]
    mov rdx, gs:[\at+16]
    mov rbx, gs:[\at+24]
    mov rbp, gs:[\at+40]
    mov rsi, gs:[\at+48]
    mov rdi, gs:[\at+56]
    mov r8, gs:[\at+64]
    mov r9, gs:[\at+72]
    mov r10, gs:[\at+80]
    mov r11, gs:[\at+88]
    mov r12, gs:[\at+96]
    mov r13, gs:[\at+104]
    mov r14, gs:[\at+112]
    mov r15, gs:[\at+120]
.endm

# Out of the program: its registers and flags are kept. The stack stays its own, so that the frame of a signal goes where it
# would: on the top of an alternate stack it might overwrite that of a handler.
.macro ENTER
    SAVE {REGISTERS}
    lahf
    seto al
    movzx ecx, ah
    movzx eax, al
    shl eax, 11
    or eax, ecx
    or eax, 0x202
    mov gs:[{FLAGS}], rax
.endm

# Wakes the observer, then sleeps until the word at gs:[state] is 2. Goes to orphan if the observer is dead.
.macro ASK state, orphan
    mov dword ptr gs:[\state], 1
    mov rdi, gs:[{HUB}]
    lock inc dword ptr [rdi]
    mov esi, 1
    mov edx, 1
    mov eax, 202
    syscall
77: mov ecx, 200
78: cmp dword ptr gs:[\state], 2
    je 79f
    pause
    dec ecx
    jnz 78b
    mov rdi, gs:[{SELF}]
    add rdi, \state
    xor esi, esi
    mov edx, 1
    lea r10, [rip + .Ldbi_timeout]
    mov eax, 202
    syscall
    test rax, rax
    jz 77b
    cmp dword ptr gs:[\state], 2
    je 79f
    mov rdi, gs:[{HUB}] # also where a signal comes before the time is over, again and again
    test dword ptr [rdi+{ALIVE}], {DEAD}
    jz 77b
    jmp \orphan
79: mov dword ptr gs:[\state], 0
.endm

# Opens the file named at gs:[path] for reading and writing, closed when another program is executed.
.macro OPEN path
    mov rdi, gs:[{SELF}]
    add rdi, \path
    mov esi, 0x80002
    xor edx, edx
    mov eax, 2
    syscall
.endm

# Maps a part of the file r8 at r13 + start; flags are those of a fixed mapping without reserve.
.macro MAP start, length, protection, flags, at, refused=.Ldbi_no_room
    movabs rdi, \start
    add rdi, r13
    mov esi, \length
    mov edx, \protection
    mov r10d, \flags
    movabs r9, \at
    mov eax, 9
    syscall
    test rax, rax
    js \refused
.endm

# Gives the kernel the program's own signal actions.
.macro OWN_ACTIONS
    mov r14d, 1
76: mov r15, r14
    shl r15, 5
    mov rax, gs:[r15+{ACTIONS}]
    cmp rax, 1
    jbe 75f
    mov rdi, r14
    mov rsi, gs:[{SELF}]
    lea rsi, [rsi+r15+{ACTIONS}]
    xor edx, edx
    mov r10d, 8
    mov eax, 13
    syscall
75: inc r14d
    cmp r14d, 64
    jbe 76b
.endm

.pushsection .text.reuse_sampler_dbi,"ax",@progbits
.p2align 4
.globl reuse_sampler_dbi_runtime
.hidden reuse_sampler_dbi_runtime
reuse_sampler_dbi_runtime:
    .long .Ldbi_end - reuse_sampler_dbi_runtime
    .long .Ldbi_start - reuse_sampler_dbi_runtime
    .long .Ldbi_exit - reuse_sampler_dbi_runtime
    .long .Ldbi_probe - reuse_sampler_dbi_runtime
    .long .Ldbi_call - reuse_sampler_dbi_runtime
    .long .Ldbi_call_checked - reuse_sampler_dbi_runtime
    .long .Ldbi_call_made - reuse_sampler_dbi_runtime
    .long .Ldbi_call_kernel - reuse_sampler_dbi_runtime
    .long .Ldbi_signal - reuse_sampler_dbi_runtime
    .long .Ldbi_restorer - reuse_sampler_dbi_runtime
    .long .Ldbi_returned - reuse_sampler_dbi_runtime
    .long .Ldbi_command_kernel - reuse_sampler_dbi_runtime
    .long .Ldbi_fork_kernel - reuse_sampler_dbi_runtime
    .long .Ldbi_call_asked - reuse_sampler_dbi_runtime
    .long .Ldbi_command - reuse_sampler_dbi_runtime
    .long .Ldbi_fork - reuse_sampler_dbi_runtime
    .long .Ldbi_aborted - reuse_sampler_dbi_runtime
    .long .Ldbi_after - reuse_sampler_dbi_runtime
    .long .Ldbi_share - reuse_sampler_dbi_runtime
.p2align 4
.Ldbi_timeout:
    .quad 0, 300000000

# The share of the instructions left from which a chain takes its own does not suffice: shares are evened out or, where
# few instructions are left, become this one. Goes to what tries again, where rcx points, or behind that if this one had all.
.macro SHARE number
.p2align 4
    mov gs:[{SLOT_G}], rdx
    mov edx, 8*\number
    jmp .Ldbi_even_out
.endm
.p2align 4
.Ldbi_share:
    SHARE 0
    SHARE 1
    SHARE 2
    SHARE 3
    SHARE 4
    SHARE 5
    SHARE 6
    SHARE 7
.Ldbi_even_out:
    mov gs:[{SLOT_H}], rax
    mov rax, gs:[{LEFT}]
.irp at, 8, 16, 24, 32, 40, 48, 56
    add rax, gs:[{LEFT}+\at]
.endr
    cmp rax, {FEW}
    jl 1f
    mov edx, eax
    and edx, 7
    shr rax, 3
.irp at, 8, 16, 24, 32, 40, 48, 56
    mov gs:[{LEFT}+\at], rax
.endr
    add rax, rdx
    mov gs:[{LEFT}], rax
    jmp 3f
1:  cmp rax, gs:[rdx+{LEFT}]
    je 2f
.irp at, 0, 8, 16, 24, 32, 40, 48, 56
    mov qword ptr gs:[{LEFT}+\at], 0
.endr
    mov gs:[rdx+{LEFT}], rax
3:  cmp dword ptr gs:[{ASKED}], 0 # a signal meanwhile took from shares what was then written anew
    je 4f
2:  add rcx, {RETRY}
4:  mov rax, gs:[{SLOT_H}]
    mov rdx, gs:[{SLOT_G}]
    jmp rcx

# The program's first instruction.
.Ldbi_start:
    mov dword ptr gs:[{EXIT}], 0

# Out of translated code, or at a known place of the program.
.p2align 4
.Ldbi_exit:
    ENTER
    mov dword ptr gs:[{REASON}], 0
.Ldbi_ring:
    ASK {STATE}, .Ldbi_orphan
    mov eax, gs:[{COMMAND}]
    cmp eax, 1
    je .Ldbi_resume
    cmp eax, 2
    je .Ldbi_command
    cmp eax, 3
    je .Ldbi_native
    cmp eax, 5
    je .Ldbi_fork
    cmp eax, 6
    je .Ldbi_clone

# A system call that the observer asks for.
    mov rax, gs:[{RAW}]
    mov rdi, gs:[{RAW}+8]
    mov rsi, gs:[{RAW}+16]
    mov rdx, gs:[{RAW}+24]
    mov r10, gs:[{RAW}+32]
    xor r8d, r8d
    xor r9d, r9d
    syscall
    mov gs:[{RAW_RESULT}], rax
    mov dword ptr gs:[{REASON}], 9
    jmp .Ldbi_ring

.Ldbi_resume:
    RESTORE {REGISTERS}, {FLAGS}
    jmp qword ptr gs:[{RESUME}]

.Ldbi_command:
    RESTORE {REGISTERS}, {FLAGS}
    mov dword ptr gs:[{EXIT}], 0
.Ldbi_command_kernel:
    syscall
.Ldbi_commanded:
    ENTER
    mov dword ptr gs:[{REASON}], 5
    jmp .Ldbi_ring

.Ldbi_fork:
    mov rax, gs:[{PC}]
    mov gs:[{PRIVATE_PC}], rax
    RESTORE {REGISTERS}, {FLAGS}
    mov dword ptr gs:[{EXIT}], 0
.Ldbi_fork_kernel:
    syscall
    mov rcx, rax
    jrcxz .Ldbi_child
    jmp .Ldbi_commanded

# A system call of the observer's was taken back.
.Ldbi_aborted:
    mov dword ptr gs:[{EXIT}], 0
    mov rsp, gs:[{REGISTERS}+32]
    mov dword ptr gs:[{REASON}], 11
    jmp .Ldbi_ring

# A child has a copy of the private part; nothing may be written that is shared with its parent. All signals are
# blocked, and the kernel has left the flags in r11. It maps a region of its own in the place of this one, where its
# registers are already, or runs natively.
.Ldbi_child:
    SAVE {PRIVATE_REGISTERS}
    mov gs:[{PRIVATE_FLAGS}], r11
    cmp byte ptr gs:[{CHILD_PATH}], 0
    je 2f
    OPEN {CHILD_PATH}
    test eax, eax
    js 2f
    mov r12d, eax
    OPEN {COMMON_PATH}
    mov r14d, eax
    test eax, eax
    js 1f
    mov r13, gs:[{HUB}]
    sub r13, {HUB_AT}
    mov r8d, r12d
    MAP {AT_MORE}, {MORE}, 3, 0x4011, {SIZE}, 3f # where the program may have no more addresses
    MAP {RUNTIME_AT}, {HUB_AT}-{RUNTIME_AT}, 5, 0x4011, {RUNTIME_AT}
    MAP {HUB_AT}, {EXIT_PCS_AT}-{HUB_AT}, 3, 0x4011, {HUB_AT}
    MAP {EXIT_PCS_AT}, {FIRST}-{EXIT_PCS_AT}, 1, 0x4011, {EXIT_PCS_AT}
    MAP {FIRST}, {PRIVATE_SIZE}, 3, 0x4012, {FIRST}
    MAP {FIRST}+{PRIVATE_SIZE}, {THREAD_SIZE}-{PRIVATE_SIZE}, 3, 0x4011, {FIRST}+{PRIVATE_SIZE}
    MAP {CACHE}, {SIZE}-{CACHE}, 5, 0x4011, {CACHE}
    mov r8d, r14d
    MAP {HUB_AT}, {COMMON}, 3, 0x4011, {HUB_AT}
    mov edi, r12d
    mov eax, 3
    syscall
    mov edi, r14d
    mov eax, 3
    syscall
    mov edi, 0x59616d61 # the observer may look at its memory, whosever child it becomes
    mov esi, [r13+{HUB_AT}+{OBSERVER}]
    mov eax, 157
    syscall
    mov edi, 0x1001
    lea rsi, [r13+{FIRST}]
    mov eax, 158
    syscall
    mov dword ptr gs:[{REASON}], 12
    jmp .Ldbi_ring
3:  mov edi, r14d
    mov eax, 3
    syscall
1:  mov edi, r12d
    mov eax, 3
    syscall
2:  OWN_ACTIONS
    mov dword ptr gs:[{NATIVE}], 1
    mov edi, 2
    mov rsi, gs:[{SELF}]
    add rsi, {PRIVATE_MASK}
    xor edx, edx
    mov r10d, 8
    mov eax, 14
    syscall
    RESTORE {PRIVATE_REGISTERS}, {PRIVATE_FLAGS}
    jmp qword ptr gs:[{PRIVATE_PC}]

# What was mapped is in part replaced: there is no way back.
.Ldbi_no_room:
    mov edi, 127
    mov eax, 231
    syscall

# The observer is dead: on without it. Signals that it has put aside are sent again; they are blocked until then.
.Ldbi_orphan:
    mov r12, gs:[{ASIDE}]
1:  bsf rbx, r12
    jz 2f
    btr r12, rbx
    mov eax, 39
    syscall
    mov edi, eax
    mov eax, 186
    syscall
    mov esi, eax
    lea edx, [rbx+1]
    mov eax, 234
    syscall
    jmp 1b
2:  mov eax, gs:[{EXIT}]
    test eax, eax
    jz .Ldbi_native
    mov rcx, gs:[{EXIT_PCS}]
    mov rax, [rcx+rax*8]
    mov gs:[{PC}], rax
.Ldbi_native:
    mov rax, gs:[{PC}]
    mov gs:[{PRIVATE_PC}], rax
    cmp dword ptr gs:[{APART}], 0
    jne 3f
    mov rdi, gs:[{HUB}]
    lock bts dword ptr [rdi+{RESTORED}], 0
    jc 2f # another thread has done so, and the program may have changed them since
3:  OWN_ACTIONS
2:  mov dword ptr gs:[{NATIVE}], 1
    cmp dword ptr gs:[{MASKED}], 0
    je 1f
    mov edi, 2
    mov rsi, gs:[{SELF}]
    add rsi, {MASK}
    xor edx, edx
    mov r10d, 8
    mov eax, 14
    mov rsp, gs:[{REGISTERS}+32]
    syscall
1:  RESTORE {REGISTERS}, {FLAGS}
    jmp qword ptr gs:[{PRIVATE_PC}]

# A new thread begins with its parent's registers and GS; all signals are blocked.
.Ldbi_clone:
    RESTORE {REGISTERS}, {FLAGS}
    mov dword ptr gs:[{EXIT}], 0
    syscall
    mov rcx, rax
    jrcxz .Ldbi_thread
    jmp .Ldbi_commanded
.Ldbi_thread:
    mov rcx, gs:[{NEW}]
    mov [rcx+{REGISTERS}], rax
    mov [rcx+{REGISTERS}+16], rdx
    mov [rcx+{REGISTERS}+24], rbx
    mov [rcx+{REGISTERS}+32], rsp
    mov [rcx+{REGISTERS}+40], rbp
    mov [rcx+{REGISTERS}+48], rsi
    mov [rcx+{REGISTERS}+56], rdi
    mov [rcx+{REGISTERS}+64], r8
    mov [rcx+{REGISTERS}+72], r9
    mov [rcx+{REGISTERS}+80], r10
    mov [rcx+{REGISTERS}+96], r12
    mov [rcx+{REGISTERS}+104], r13
    mov [rcx+{REGISTERS}+112], r14
    mov [rcx+{REGISTERS}+120], r15
    mov [rcx+{FLAGS}], r11 # where the kernel has left them
    mov rbx, rcx
    mov eax, 186
    syscall
    mov [rbx+{TID}], eax
    mov rsi, rbx
    mov edi, 0x1001
    mov eax, 158
    syscall
    mov dword ptr gs:[{REASON}], 12
    jmp .Ldbi_ring

# Back from a system call of translated code that is there no longer.
.Ldbi_after:
    ENTER
    mov ecx, gs:[{EXIT}]
    mov rax, gs:[{EXIT_PCS}]
    mov rax, [rax+rcx*8]
    add rax, 2 # behind the system call
    mov gs:[{PC}], rax
    mov dword ptr gs:[{EXIT}], 0
    mov dword ptr gs:[{REASON}], 13
    jmp .Ldbi_ring

# A return or an indirect jump did not find its target at once: gs:[PC] holds it, rcx and rdx are in their slots.
.p2align 4
.Ldbi_probe:
    mov rcx, gs:[{PC}]
    mov gs:[{SLOT_C}], rax
    lahf
    seto al
    mov gs:[{SLOT_E}], rax
    test rcx, rcx # an entry that is free has it as its address
    jz .Ldbi_miss
    imul rdx, rcx, 0x5bd1e995
    shr rdx, {HASH_SHIFT}
    and edx, {HASH_MASK}
    shl rdx, 4
    add rdx, gs:[{HASH}]
.rept {PROBES}
    mov rax, [rdx]
    cmp rax, rcx
    je .Ldbi_hit
    add rdx, 16
.endr
.Ldbi_miss:
    mov rax, gs:[{SLOT_E}]
    add al, 127
    sahf
    mov rax, gs:[{SLOT_C}]
    mov rcx, gs:[{SLOT_A}]
    mov rdx, gs:[{SLOT_B}]
    mov dword ptr gs:[{EXIT}], 0
    jmp .Ldbi_exit
.Ldbi_hit:
    mov rax, [rdx+8]
    movzx ecx, cx
    shl ecx, 3
    add rcx, gs:[{LOOKUP}]
    mov [rcx], rax
    add rax, {VERIFIED}
    mov gs:[{RESUME}], rax
    mov rax, gs:[{SLOT_E}]
    add al, 127
    sahf
    mov rax, gs:[{SLOT_C}]
    jmp qword ptr gs:[{RESUME}]

# A system call of translated code; rcx and r11 are the kernel's to destroy. A signal between the look at what is pending
# and the kernel is asked about as if it had been seen: what is left to do then is the same.
.p2align 4
.Ldbi_call:
    mov r11, rax
    mov gs:[{CALL}], rax
    lahf
    seto al
    cmp r11, {CALLS}-1
    ja .Ldbi_call_asked
    bt qword ptr gs:[{ASK_FIRST}], r11
    jc .Ldbi_call_asked
    bt qword ptr gs:[{ASK_WHERE}], r11
    jnc 1f
    cmp rsi, gs:[{GUARDED_END}]
    jae 1f
    lea rcx, [rsi+rdx]
    cmp rcx, gs:[{GUARDED}]
    ja .Ldbi_call_asked
1:
    cmp dword ptr gs:[{PENDING}], 0
.Ldbi_call_checked:
    jne .Ldbi_call_asked
.Ldbi_call_made:
    add al, 127
    sahf
    mov rax, r11
.Ldbi_call_kernel:
    syscall
    lea rcx, [rax+{EFAULT}] # it may have been refused what is guarded
    jrcxz 1f
    jmp qword ptr gs:[{AFTER_CALL}]
1:  mov rax, gs:[{CALL}] # made again if the observer is dead
    ENTER
    mov dword ptr gs:[{REASON}], {FAULTED}
    jmp .Ldbi_ring
.Ldbi_call_asked:
    add al, 127
    sahf
    mov rax, r11
    jmp .Ldbi_exit

# Every signal that the program handles arrives here first, all others blocked.
.p2align 4
.Ldbi_signal:
    cmp dword ptr gs:[{NATIVE}], 0
    jne 2f
    mov gs:[{SIGNAL}], rdi
    mov gs:[{SIGNAL_INFO}], rsi
    mov gs:[{SIGNAL_CONTEXT}], rdx
    mov gs:[{SIGNAL_STACK}], rsp
    ASK {SIGNAL_STATE}, .Ldbi_signal_orphan
    cmp dword ptr gs:[{SIGNAL_COMMAND}], 0
    jne 1f
.Ldbi_signal_return:
    mov rsp, gs:[{SIGNAL_STACK}]
    add rsp, 8
.Ldbi_restorer:
    mov eax, 15
    syscall
1:  mov rsi, gs:[{SELF}] # the frame becomes the program's here and not in the observer, which may die halfway
    lea rdi, [rsi+{REGISTERS}]
    add rsi, {FRAME}
    mov rbx, rdi
    mov rdx, gs:[{SIGNAL_CONTEXT}]
    lea rdi, [rdx+40]
    mov ecx, 23
    rep movsq
    lodsq
    mov [rdx+0x128], rax
    lodsq
    mov rdx, gs:[{SIGNAL_STACK}]
    mov [rdx], rax
    mov rdi, rbx
    mov ecx, 16
    rep movsq
    lodsq
    mov gs:[{FLAGS}], rax
    lodsq
    mov gs:[{MASK}], rax
    lodsq
    mov gs:[{PC}], rax
    mov dword ptr gs:[{MASKED}], 1
    mov rsp, gs:[{REGISTERS}+32]
    mov dword ptr gs:[{EXIT}], 0
    mov dword ptr gs:[{REASON}], 10
    jmp .Ldbi_ring
2:  mov rax, rdi
    shl rax, 5
    mov rax, gs:[rax+{ACTIONS}]
    jmp rax

# The observer is dead: the signal waits, blocked, until the next block has taken the program out. A system call of
# translated code that has not begun, or is to begin again, is left for the exit: it might not return.
.Ldbi_signal_orphan:
    mov rdx, gs:[{SIGNAL_CONTEXT}]
    mov dword ptr gs:[{PENDING}], 1
    mov rax, [rdx+0xA8]
    lea rcx, [rip + .Ldbi_call_kernel]
    cmp rax, rcx
    lea rcx, [rip + .Ldbi_exit]
    je 1f
    lea rsi, [rip + .Ldbi_call_checked]
    cmp rax, rsi
    lea rcx, [rip + .Ldbi_call_asked]
    je 1f
    lea rsi, [rip + .Ldbi_call_made]
    sub rax, rsi
    cmp rax, 6 # bytes from there to the kernel
    jae 3f
    add rcx, rax
1:  mov [rdx+0xA8], rcx
3:  cmp dword ptr gs:[{MASKED}], 0
    jne 4f # the observer had begun, and the frame's mask may be its own
    mov rax, [rdx+0x128]
    mov gs:[{MASK}], rax
    mov dword ptr gs:[{MASKED}], 1
4:  mov qword ptr [rdx+0x128], -1
    mov eax, 39
    syscall
    mov r12, rax
    mov eax, 186
    syscall
    mov rsi, rax
    mov rdi, r12
    mov rdx, gs:[{SIGNAL}]
    mov r10, gs:[{SIGNAL_INFO}]
    mov eax, 297
    syscall
    mov dword ptr gs:[{ASKED}], 1
    mov rax, 0xFF00000000000000
.irp at, 0, 8, 16, 24, 32, 40, 48, 56
    mov gs:[{LEFT}+\at], rax
.endr
    jmp .Ldbi_signal_return

# The program returned from a handler: the kernel has restored everything but the place.
.Ldbi_returned:
    mov dword ptr gs:[{EXIT}], 0
    ENTER
    mov dword ptr gs:[{REASON}], 6
    jmp .Ldbi_ring
.Ldbi_end:
.popsection
